"""Operations element by element, with broadcasting and promotion."""
