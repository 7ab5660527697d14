//! What is built in of Sia's applications: parameters that were fitted to its authors' measurements, and noise of gradients in a few parts of
//! a training. Written by `examples/fit_goodput.rs`; docs/calibration.md says where the measurements are from.

use super::known::{Fit, Known};

#[rustfmt::skip]
pub(super) const KNOWN: [Known; 6] = [
    Known {
        name: "cifar10",
        fits: &[
            // Off by 6.2 % at the median, and by 22.5 % at the 95th percentile, of 700 measurements.
            Fit { gpu_type: "aws", parameters: [0.01776, 0.0006973, 0.1277, 0.002605, 0.0342, 0.001648, 2.233], samples: (32, 1024), alone: 1458.0 },
            // Off by 10.0 % at the median, and by 36.4 % at the 95th percentile, of 493 measurements.
            Fit { gpu_type: "azure", parameters: [0.06882, 0.0001505, 0.094, 0.001614, 0.0824, 0.0009034, 3.066], samples: (32, 3072), alone: 4715.0 },
            // Off by 2.6 % at the median, and by 8.9 % at the 95th percentile, of 262 measurements.
            Fit { gpu_type: "dgx-ext", parameters: [0.0245, 0.00008775, 0.01345, 0.0008386, 0.01305, 0.001535, 2.62], samples: (32, 4096), alone: 10060.0 },
            // Off by 1.8 % at the median, and by 6.5 % at the 95th percentile, of 52 measurements.
            Fit { gpu_type: "quad", parameters: [0.02672, 0.00025, 0.05119, 0.01008, 0.04654, 0.009161, 3.331], samples: (32, 2048), alone: 3740.0 },
            // Off by 3.5 % at the median, and by 12.4 % at the 95th percentile, of 343 measurements.
            Fit { gpu_type: "rtx", parameters: [0.03588, 0.0002577, 0.08639, 0.001549, 0.06432, 0.00454, 2.968], samples: (32, 1024), alone: 3306.0 },
        ],
        ends: &[3907.0, 7813.0, 11719.0, 15625.0, 19531.0, 23438.0, 27344.0, 31250.0, 35157.0, 39063.0],
        noise: &[
            (128, &[1.949, 11.86, 19.64, 25.73, 33.31, 42.74, 61.55, 101.0, 172.8, 231.6]),
            (256, &[2.877, 16.38, 25.72, 36.2, 50.71, 72.57, 104.1, 177.1, 222.6, 260.0]),
            (512, &[4.919, 21.84, 35.32, 51.14, 73.69, 105.8, 178.0, 305.8, 389.4, 450.4]),
            (1024, &[5.279, 25.01, 39.68, 59.6, 85.84, 147.5, 264.3, 357.2, 587.7, 553.3]),
            (2048, &[5.207, 31.42, 50.74, 70.32, 105.3, 192.9, 431.7, 608.4, 900.0, 794.3]),
            (4096, &[5.29, 30.02, 51.83, 75.26, 106.1, 185.7, 386.2, 780.2, 1087.0, 1106.0]),
        ],
    },
    Known {
        name: "bert",
        fits: &[
            // Off by 4.6 % at the median, and by 30.8 % at the 95th percentile, of 350 measurements.
            Fit { gpu_type: "aws", parameters: [0.1757, 0.05857, 1.397, 0.008614, 0.2642, 0.01312, 1.842], samples: (4, 12), alone: 13.02 },
            // Off by 11.3 % at the median, and by 31.1 % at the 95th percentile, of 392 measurements.
            Fit { gpu_type: "azure", parameters: [0.1166, 0.02042, 0.2991, 0.02364, 0.211, 0.1031, 1.779], samples: (4, 36), alone: 41.58 },
            // Off by 1.7 % at the median, and by 6.5 % at the 95th percentile, of 207 measurements.
            Fit { gpu_type: "dgx-ext", parameters: [0.0979, 0.004734, 0.03401, 0.003385, 0.02917, 0.006118, 1.583], samples: (4, 48), alone: 140.4 },
            // Off by 1.6 % at the median, and by 4.5 % at the 95th percentile, of 28 measurements.
            Fit { gpu_type: "quad", parameters: [0.1157, 0.02186, 0.3923, 0.07481, 0.3566, 0.06801, 2.387], samples: (4, 24), alone: 37.44 },
            // Off by 6.4 % at the median, and by 16.7 % at the 95th percentile, of 175 measurements.
            Fit { gpu_type: "rtx", parameters: [0.1602, 0.02259, 0.555, 0.0224, 0.347, 0.06698, 1.921], samples: (4, 12), alone: 26.85 },
        ],
        ends: &[7387.0, 14774.0],
        noise: &[
            (12, &[35.25, 93.69]),
            (24, &[89.42, 315.4]),
            (48, &[120.0, 636.6]),
            (96, &[183.9, 558.8]),
            (192, &[407.9, 7221.0]),
            (384, &[935.0, 1066.0]),
        ],
    },
    Known {
        name: "deepspeech2",
        fits: &[
            // Off by 7.0 % at the median, and by 21.8 % at the 95th percentile, of 434 measurements.
            Fit { gpu_type: "aws", parameters: [0.3128, 0.02344, 0.5045, 0.009745, 0.1082, 0.004509, 1.475], samples: (10, 80), alone: 31.49 },
            // Off by 12.6 % at the median, and by 37.4 % at the 95th percentile, of 300 measurements.
            Fit { gpu_type: "azure", parameters: [0.3447, 0.0105, 0.05759, 0.02036, 0.1308, 0.05985, 1.413], samples: (10, 240), alone: 71.82 },
            // Off by 5.0 % at the median, and by 18.7 % at the 95th percentile, of 170 measurements.
            Fit { gpu_type: "dgx-ext", parameters: [0.422, 0.01334, 0.185, 0.0138, 0.1562, 0.01659, 1.722], samples: (10, 320), alone: 77.5 },
            // Off by 11.4 % at the median, and by 17.8 % at the 95th percentile, of 36 measurements.
            Fit { gpu_type: "quad", parameters: [0.1797, 0.01627, 0.3658, 0.03884, 0.3326, 0.03531, 3.134], samples: (10, 160), alone: 48.65 },
            // Off by 6.6 % at the median, and by 29.5 % at the 95th percentile, of 213 measurements.
            Fit { gpu_type: "rtx", parameters: [0.3497, 0.01293, 0.07304, 0.01791, 0.09802, 0.02863, 1.281], samples: (10, 57), alone: 52.51 },
        ],
        ends: &[2854.0, 5707.0, 8561.0, 11415.0, 14268.0, 17122.0, 19976.0, 22829.0, 25683.0, 28536.0],
        noise: &[
            (20, &[1.71, 31.7, 119.8, 541.9, 1014.0, 1718.0, 6295.0, 581000.0, 8295.0, 25590.0]),
            (40, &[2.571, 44.19, 182.4, 721.9, 3394.0, 3530.0, 6077.0, 7311.0, 10090.0, 10220.0]),
            (80, &[3.32, 56.34, 247.3, 878.0, 1476.0, 1542.0, 2835.0, 1741.0, 1738.0, 1423.0]),
            (160, &[4.885, 61.68, 268.3, 1334.0, 1190.0, 1343.0, 1878.0, 1178.0, 1818.0, 2017.0]),
            (320, &[5.317, 64.98, 190.0, 379.0, 1244.0, 6734.0, 4220.0, 6413.0, 1807.0, 2405.0]),
            (640, &[5.733, 57.92, 127.2, 233.5, 531.5, 2734.0, 5336.0, 5667.0, 5262.0, 4507.0]),
        ],
    },
    Known {
        name: "imagenet",
        fits: &[
            // Off by 5.9 % at the median, and by 23.8 % at the 95th percentile, of 560 measurements.
            Fit { gpu_type: "aws", parameters: [0.06438, 0.00449, 0.3203, 0.006182, 0.07507, 0.000873, 2.482], samples: (20, 200), alone: 216.6 },
            // Off by 36.7 % at the median, and by 119.2 % at the 95th percentile, of 517 measurements.
            Fit { gpu_type: "azure", parameters: [0.09694, 0.001342, 0.05997, 0.02401, 0.07177, 0.0175, 1.0], samples: (20, 600), alone: 673.2 },
            // Off by 6.6 % at the median, and by 19.5 % at the 95th percentile, of 276 measurements.
            Fit { gpu_type: "dgx-ext", parameters: [0.09497, 0.0008451, 0.006421, 0.00126, 0.009775, 0.001352, 1.0], samples: (20, 800), alone: 1034.0 },
            // Off by 9.7 % at the median, and by 19.6 % at the 95th percentile, of 40 measurements.
            Fit { gpu_type: "quad", parameters: [0.09695, 0.001885, 0.08953, 0.03592, 0.08139, 0.03265, 2.5], samples: (20, 400), alone: 414.9 },
            // Off by 5.4 % at the median, and by 14.4 % at the 95th percentile, of 264 measurements.
            Fit { gpu_type: "rtx", parameters: [0.121, 0.001855, 0.1736, 0.006266, 0.09559, 0.02237, 2.094], samples: (20, 200), alone: 395.2 },
        ],
        ends: &[57653.0, 115306.0, 172958.0, 230610.0, 288263.0, 345915.0, 403568.0, 461220.0, 518873.0, 576526.0],
        noise: &[
            (200, &[15.9, 28.41, 29.92, 44.51, 57.37, 56.48, 61.49, 71.94, 71.29, 71.63]),
            (400, &[18.63, 36.17, 39.02, 68.36, 98.48, 93.8, 107.3, 145.5, 144.6, 145.3]),
            (800, &[16.05, 38.3, 42.08, 85.33, 139.8, 130.6, 159.9, 277.8, 272.3, 272.1]),
            (1600, &[18.57, 40.65, 45.12, 98.3, 169.4, 152.4, 198.2, 466.3, 448.5, 441.4]),
            (3200, &[16.89, 45.51, 50.09, 110.3, 186.3, 165.9, 223.4, 754.5, 675.1, 639.5]),
            (6400, &[14.99, 49.83, 54.9, 120.7, 199.7, 176.2, 240.9, 926.0, 819.3, 742.2]),
            (12800, &[21.38, 55.58, 61.24, 132.6, 230.1, 196.9, 261.3, 1154.0, 981.0, 888.1]),
        ],
    },
    Known {
        name: "yolov3",
        fits: &[
            // Off by 8.6 % at the median, and by 32.3 % at the 95th percentile, of 278 measurements.
            Fit { gpu_type: "aws", parameters: [0.1931, 0.0256, 0.745, 0.01012, 0.1151, 0.02293, 1.105], samples: (4, 16), alone: 27.94 },
            // Off by 20.4 % at the median, and by 51.6 % at the 95th percentile, of 343 measurements.
            Fit { gpu_type: "azure", parameters: [0.1589, 0.01561, 0.06271, 0.02043, 0.1078, 0.05961, 1.0], samples: (4, 24), alone: 42.5 },
            // Off by 24.1 % at the median, and by 51.3 % at the 95th percentile, of 161 measurements.
            Fit { gpu_type: "dgx-ext", parameters: [0.3116, 0.0181, 0.04618, 0.01767, 0.08459, 0.02639, 1.0], samples: (4, 32), alone: 56.71 },
            // Off by 10.1 % at the median, and by 17.2 % at the 95th percentile, of 20 measurements.
            Fit { gpu_type: "quad", parameters: [0.167, 0.0118, 0.2009, 0.123, 0.1827, 0.1118, 1.623], samples: (4, 16), alone: 50.59 },
            // Off by 9.3 % at the median, and by 21.4 % at the 95th percentile, of 105 measurements.
            Fit { gpu_type: "rtx", parameters: [0.3618, 0.01553, 0.3171, 0.008172, 0.2075, 0.01349, 1.0], samples: (4, 8), alone: 11.72 },
        ],
        ends: &[10345.0, 20689.0, 31033.0, 41378.0, 51722.0, 62066.0, 72411.0, 82755.0, 93100.0, 103444.0],
        noise: &[
            (8, &[3.58, 40.94, 47.07, 64.59, 58.31, 73.79, 89.1, 140.9, 252.4, 634.7]),
            (16, &[3.573, 40.29, 47.84, 59.75, 53.04, 70.22, 82.11, 126.4, 304.0, 726.4]),
            (32, &[3.552, 40.84, 42.06, 55.16, 57.84, 72.14, 87.79, 155.2, 277.1, 653.2]),
            (64, &[3.548, 42.85, 47.63, 52.15, 57.77, 69.22, 100.2, 135.7, 248.4, 759.2]),
            (128, &[3.491, 43.28, 48.75, 53.37, 63.44, 76.33, 107.6, 144.2, 197.1, 631.2]),
            (256, &[3.473, 46.71, 47.25, 56.84, 70.81, 76.02, 108.0, 152.7, 200.8, 216.9]),
            (512, &[3.505, 46.04, 52.26, 59.23, 68.03, 87.09, 112.4, 136.5, 208.3, 218.4]),
        ],
    },
    Known {
        name: "ncf",
        fits: &[
            // Off by 7.9 % at the median, and by 30.4 % at the 95th percentile, of 1004 measurements.
            Fit { gpu_type: "aws", parameters: [0.007087, 0.0000005703, 0.01474, 0.0005469, 0.003855, 0.0004165, 1.0], samples: (32, 32768), alone: 1537000.0 },
            // Off by 18.7 % at the median, and by 63.9 % at the 95th percentile, of 1021 measurements.
            Fit { gpu_type: "azure", parameters: [0.08504, 0.000004452, 0.04418, 0.01844, 0.08516, 0.0193, 2.502], samples: (32, 32768), alone: 170700.0 },
            // Off by 7.0 % at the median, and by 19.4 % at the 95th percentile, of 483 measurements.
            Fit { gpu_type: "dgx-ext", parameters: [0.00819, 0.0000001269, 0.0008219, 0.0001344, 0.000835, 0.000297, 1.0], samples: (32, 32768), alone: 2721000.0 },
            // Off by 4.1 % at the median, and by 14.1 % at the 95th percentile, of 84 measurements.
            Fit { gpu_type: "quad", parameters: [0.01168, 0.0000001239, 0.007531, 0.002734, 0.006846, 0.002486, 1.29], samples: (32, 32768), alone: 1879000.0 },
            // Off by 4.5 % at the median, and by 17.7 % at the 95th percentile, of 735 measurements.
            Fit { gpu_type: "rtx", parameters: [0.0141, 0.0000001112, 0.009693, 0.0004975, 0.006042, 0.0009285, 1.0], samples: (32, 32768), alone: 1614000.0 },
        ],
        ends: &[19418.0, 38835.0, 58253.0, 77670.0, 97087.0, 116505.0, 135922.0, 155339.0, 174757.0, 194174.0],
        noise: &[
            (256, &[72.52, 29960.0, 1162.0, 26960.0, 29260.0, 81120.0, 71510.0, 186800.0, 153300.0, 231000.0]),
            (512, &[3407.0, 51610.0, 10030.0, 30210.0, 116400.0, 90320.0, 76070.0, 178800.0, 204200.0, 171800.0]),
            (1024, &[112.6, 5215.0, 3667.0, 12700.0, 90110.0, 94650.0, 65980.0, 114900.0, 50140.0, 168100.0]),
            (2048, &[974.0, 2582.0, 3262.0, 3565.0, 27770.0, 28580.0, 23980.0, 156800.0, 99910.0, 40540.0]),
            (4096, &[628.8, 3475.0, 2883.0, 5694.0, 13070.0, 23890.0, 22750.0, 55700.0, 58870.0, 63570.0]),
            (8192, &[162.1, 3380.0, 3430.0, 3493.0, 18890.0, 24420.0, 20410.0, 42660.0, 84350.0, 139100.0]),
            (16384, &[467.8, 4525.0, 4820.0, 3821.0, 21530.0, 30930.0, 19690.0, 96390.0, 208500.0, 135700.0]),
            (32768, &[809.2, 7293.0, 6630.0, 6579.0, 16380.0, 31740.0, 27720.0, 222700.0, 254000.0, 248800.0]),
        ],
    },
];
