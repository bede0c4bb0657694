package kernels

import "github.com/troupe-run/troupe/containers/staging"

// The ops on staging areas. All of them may be the first that names an area, and make it.
func init() {
	Register(
		Def{Op: "Stage", New: bufferOp(stage)},
		Def{Op: "Unstage", New: bufferOp(unstage)},
		Def{Op: "StagePeek", New: bufferOp(stagePeek)},
		Def{Op: "StageSize", New: bufferOp(atOnce(stageSize))},
		Def{Op: "StageClear", New: bufferOp(atOnce(func(_ *Context, b *staging.Buffer) error { return b.Clear() }))},
	)
	for family, ordered := range map[string]bool{"Map": false, "OrderedMap": true} {
		Register(
			Def{Op: family + "Stage", New: mapOp(ordered, mapStage)},
			Def{Op: family + "Unstage", New: mapOp(ordered, mapUnstage)},
			Def{Op: family + "UnstageNoKey", New: mapOp(ordered, mapUnstageNoKey)},
			Def{Op: family + "Peek", New: mapOp(ordered, mapPeek)},
			Def{Op: family + "Size", New: mapOp(ordered, atOnce(mapSize))},
			Def{Op: family + "IncompleteSize", New: mapOp(ordered, atOnce(mapIncompleteSize))},
			Def{Op: family + "Clear", New: mapOp(ordered, atOnce(func(_ *Context, m *staging.Map) error { return m.Clear() }))},
		)
	}
}
