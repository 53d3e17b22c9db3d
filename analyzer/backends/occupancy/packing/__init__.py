"""Packing jobs on GPUs by predicted occupancy, simulated: section VI of the DNN-occu paper and beyond it. Free of torch.

``job`` and ``job_kinds`` read what is packed, ``job_stream`` draws it; ``policies`` decide which job goes where,
``slowdown`` says what sharing costs, ``simulation`` runs one stream, ``experiment`` many of them (Table VI).
``gavel_pairs`` and ``interference`` hold what was measured of pairs, and rules that predict pairs nobody measured.
"""
