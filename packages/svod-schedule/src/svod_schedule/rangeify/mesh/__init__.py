"""Values that are split over the processes of a mesh: the collectives that exchange their shards."""
