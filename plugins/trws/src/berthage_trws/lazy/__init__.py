"""The solver ``trws-lazy``: message passing on cheap lower bounds, with costs priced as the search touches them."""
