"""Models to search plans for, written in plain PyTorch with every size an argument."""
