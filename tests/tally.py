"""Counts checks, for test programs in Python."""
passed = failed = 0


def check(ok, what):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print("not so:", what)
    return ok
