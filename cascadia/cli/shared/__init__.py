"""Parts that commands share: options, output, progress and errors."""
