"""What the hot paths cost: workloads made in code, and the program that measures them.

Nothing here is part of the library, and nothing here asserts a time: the table names the targets and who misses them.
"""
