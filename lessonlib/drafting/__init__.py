"""The proposers: what drafts the tokens that the target verifies."""
