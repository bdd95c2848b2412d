"""The terminal client: a pure transcript, its words, a line editor, a screen, and the session around them."""
