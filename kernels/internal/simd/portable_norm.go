package simd

func normalizeRow(dst, x, mean, factor, offset []float32) {
	for i, v := range x {
		dst[i] = (v-mean[i])*factor[i] + offset[i]
	}
}

func addSquaresRow(sum, x, mean []float32) {
	for i, v := range x {
		v -= mean[i]
		sum[i] += v * v
	}
}

func addProductsRow(sum, products, grad, x, mean []float32) {
	for i, g := range grad {
		sum[i] += g
		products[i] += g * (x[i] - mean[i])
	}
}

func normalizeGradRow(dst, grad, x, mean, ofGrad, ofX, offset []float32) {
	for i, g := range grad {
		dst[i] = g*ofGrad[i] + (x[i]-mean[i])*ofX[i] + offset[i]
	}
}
