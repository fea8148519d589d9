def reason_of(*a):
    return None
