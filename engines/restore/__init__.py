"""Restorers: networks that sharpen and mend a face. Optional, after the swap."""
