"""What commands share: options, output, progress and errors."""
