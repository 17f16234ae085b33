"""Many searches, each in a process of its own, and what each took. Only `measure`, that process, needs torch."""
