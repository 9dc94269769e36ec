"""What a month will cost, before it is spent."""
