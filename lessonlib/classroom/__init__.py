"""What turns the hand-written lessons into notebooks, and keeps learners' copies safe."""
