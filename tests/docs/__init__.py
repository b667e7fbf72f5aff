"""Reading and running the manual: `blocks` finds its code, `page` runs one page's Python."""
