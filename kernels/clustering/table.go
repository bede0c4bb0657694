package clustering

import (
	"github.com/troupe-run/troupe/kernels"
)

// Table returns the ops of the family.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addCluster(table)
	return table
}

// addCluster adds the ops of k-means clustering.
func addCluster(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "KMC2ChainInitialization", New: kernels.Always(kmc2Chain)},
		{Op: "KmeansPlusPlusInitialization", New: kernels.Always(kmeansPlusPlus), Expensive: true},
		{Op: "NearestNeighbors", New: kernels.Always(nearestNeighbors), Expensive: true},
	}...)
}
