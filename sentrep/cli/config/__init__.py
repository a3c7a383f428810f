"""From the words behind ``fit`` to one configuration.

recipes        the recipes and tables that ship, by name
configuration  files and flags, merged into one tree
paper_tables   rows of a paper's table
sections       defaults, and settings that follow from several sections
building       a section as an object
complaints     jsonargparse's account as one sentence
"""
