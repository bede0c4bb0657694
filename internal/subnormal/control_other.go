//go:build !amd64 && !arm64

package subnormal

const bits = 0

func control() uint64 { return 0 }

func setControl(uint64) {}
