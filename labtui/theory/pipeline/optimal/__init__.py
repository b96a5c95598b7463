"""The best schedule that a solver finds for given costs and memory. `search.solve` is the way in.

Pure like its neighbours: numbers in, numbers out. OR-Tools is imported when a search begins and not before.
"""
