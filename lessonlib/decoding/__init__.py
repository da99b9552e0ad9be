"""Running models: sampling, caches, GPT-2's forward, and the speculative loop."""
