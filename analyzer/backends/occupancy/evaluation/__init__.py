"""How well predictors tell the occupancy of networks that they were not fitted on, by the DNN-occu paper's protocols."""
