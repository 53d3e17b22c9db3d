"""What a corpus of recorded runs covers, several as one, and logged runs brought into one."""
