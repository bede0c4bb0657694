package passthrough_test

import (
	"strings"
	"testing"

	dt "github.com/troupe-run/troupe/kernels/data/internal/datatest"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// Old graphs request statistics.
func TestStatsAggregator(t *testing.T) {
	d := kt.NewDevice(t)
	stats := d.Run(t, kt.Op{Type: "StatsAggregatorHandle", Attrs: kt.Attrs{"shared_name": "stats"}})[0]
	p := dt.NewPipe(d).Numbers(5).Op("BytesProducedStatsDataset", nil, kt.Str(nil, "bytes")).Op("LatencyStatsDataset", nil, kt.Str(nil, "time"))
	p.Op("SetStatsAggregatorDataset", nil, dt.Retained(stats), kt.Str(nil, "tag"), kt.Str(nil, ""))
	it := p.Iterate(t)
	defer p.Now.Release()
	if got := it.Rest(9); got != "0 1 2 3 4 end" {
		t.Error(got)
	}
	it.Close()
	out := d.Run(t, kt.Op{Type: "StatsAggregatorSummary"}, stats)[0]
	text := out.Tensor.Strings()[0]
	if !strings.Contains(text, "tag::bytes") || !strings.Contains(text, "tag::time") {
		t.Errorf("got %q", text)
	}
	out.Release()
}
