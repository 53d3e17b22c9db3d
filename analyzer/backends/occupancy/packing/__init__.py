"""Packing jobs on GPUs by predicted occupancy, simulated: section VI of the DNN-occu paper. Free of torch.

``job_tables`` reads what is packed, ``job_stream`` draws it; ``policies`` decide which job goes where, ``slowdown`` says what
sharing costs, ``simulation`` runs one stream, ``experiment`` many of them (Table VI).
"""
