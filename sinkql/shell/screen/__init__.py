"""Output of the shell and the command line.

* `screen`: Print results, notices and errors to the terminal, a file or the pager, and a clock while statements run.
* `table`: Format columns and rows in each output format.
* `grid`: Draw tables with rich.
* `value`: Format values as text.
* `document`: Show pages of the documentation.
* `pager`: Show a long text in the user's pager.
* `keyboard`: Set the mode of the terminal while a statement or another program runs.
"""
