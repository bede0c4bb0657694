package mapping_test

import (
	"testing"
	"testing/synctest"

	dt "github.com/troupe-run/troupe/kernels/data/internal/datatest"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestEmptyDatasetsInAnyOrder interleaves datasets in any order, of which all that are open end at the same time: the next ones are opened.
func TestEmptyDatasetsInAnyOrder(t *testing.T) {
	for _, cycle := range []int64{1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			d := kt.NewDevice(t)
			dt.FunctionDevice = d
			attrs := dt.Calls("f", "count")
			attrs["sloppy"] = true
			p := dt.NewPipe(d).List(4, 8, 4, 0, 0, 4, 1, 0).Op("ParallelInterleaveDatasetV2", attrs, dt.Int(cycle), dt.Int(1), dt.Int(cycle))
			it := p.Iterate(t)
			defer p.Now.Release()
			defer it.Close()
			synctest.Wait()
			if got := it.Rest(3); got != "0 end" {
				t.Errorf("%d at a time: the elements are %s", cycle, got)
			}
		})
	}
}
