"""Time kept: budgets, the tick, and what gives way."""
