package kernels

// The ops of k-means clustering.
func init() {
	Register(
		Def{Op: "KMC2ChainInitialization", New: always(kmc2Chain)},
		Def{Op: "KmeansPlusPlusInitialization", New: always(kmeansPlusPlus), Expensive: true},
		Def{Op: "NearestNeighbors", New: always(nearestNeighbors), Expensive: true},
	)
}
