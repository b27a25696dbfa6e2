"""cosight: does a vision model see the way people do?"""
