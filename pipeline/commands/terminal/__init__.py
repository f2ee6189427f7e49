"""What commands write to the terminal."""
