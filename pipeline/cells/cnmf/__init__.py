"""Consensus NMF: factorisations in the files of the package cNMF."""
