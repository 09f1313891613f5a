"""What is given to others: wheel and sdist, built, looked into, installed where nothing else is, and run.

contents    the files of both and the wheel's metadata, compared with the repository
running     installing into bare environments, and a gateway that answers
__main__    all of it, as `make dist` does it
"""
