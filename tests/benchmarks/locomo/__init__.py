"""Does memory find the conversation that holds the answer? LoCoMo, through the whole service."""
