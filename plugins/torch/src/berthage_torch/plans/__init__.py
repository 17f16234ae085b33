"""Plans: made, saved, compared and explained."""
