package audio

import "github.com/troupe-run/troupe/kernels"

// Table returns the ops of the family.
func Table() *kernels.Table {
	table := &kernels.Table{}
	table.Add(
		kernels.Def{Op: "AudioSpectrogram", Expensive: true, New: newSpectrogram},
		kernels.Def{Op: "DecodeWav", New: newDecodeWav},
		kernels.Def{Op: "EncodeWav", New: kernels.Always(encodeWav)},
		kernels.Def{Op: "Mfcc", Expensive: true, New: newMFCC},
	)
	return table
}
