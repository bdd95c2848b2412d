"""The person's side of a device: what they see, what they say, whom they may address."""
