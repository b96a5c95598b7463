"""1F1B with one mistake that is easily made: the warm-up is counted from the wrong end of the pipeline."""


def schedule(p, m):
    devices = []
    for stage in range(p):
        warm_up = min(stage, m)  # p - 1 - stage is right: the first device is the furthest from a gradient
        steady = m - warm_up
        work = [("F", i) for i in range(warm_up)]
        for j in range(steady):
            work += [("F", warm_up + j), ("B", j)]
        work += [("B", j) for j in range(steady, m)]
        devices.append(work)
    return devices
