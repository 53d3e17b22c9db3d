"""The workshop of a checkout: evaluation, rivals, corpora, fitting, speed. Not installed; the product never imports it."""
