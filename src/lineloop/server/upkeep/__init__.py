"""What the server does by itself: closing what is due, folding logs, projecting resources."""
