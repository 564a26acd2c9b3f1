"""What the shell and the command line show.

* `screen`: results, notices and errors to the terminal, a file or the pager.
* `table`, `grid`, `value`: columns and rows to text, in each format; those that rich draws; values to text.
* `screen`: a line with the seconds that a statement takes so far.
* `pager`: a long text to the user's pager.
* `keyboard`: the terminal between two prompts, and while another program has it.
"""
