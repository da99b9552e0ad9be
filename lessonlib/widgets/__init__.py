"""What a lesson shows: live charts, sliders and the step-through player."""
