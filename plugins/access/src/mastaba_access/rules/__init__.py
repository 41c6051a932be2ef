"""The file of rules: its schema, selectors, periods and limits."""
