"""Are both sides equal at one tick?"""
