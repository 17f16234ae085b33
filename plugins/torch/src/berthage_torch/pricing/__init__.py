"""What every operation can do on a mesh, and what each choice costs."""
