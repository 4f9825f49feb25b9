"""What is wrong with this board, or weakens it, and what can be done about it?

Each check looks at one thing and changes nothing. They are for the person at the board: what a check can't find out is
`unknown`, which is no fault. `examination` has the table of all.
"""
