select pgq.ticker()
