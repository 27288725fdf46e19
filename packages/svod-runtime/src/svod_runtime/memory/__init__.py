"""Memory planning: in which order ops run, how long each buffer is needed, and which of them share memory."""
