package graph

// checkEvery is how many steps of a pass lie between two looks at whether it is to go on.
const checkEvery = 1 << 10

// Now makes of a check one that passes may call at each step: it is asked now and then. nil is no check.
func Now(check func() error) func() error {
	if check == nil {
		return func() error { return nil }
	}
	left := 1
	return func() error {
		if left--; left > 0 {
			return nil
		}
		left = checkEvery
		return check()
	}
}
