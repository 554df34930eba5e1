"""Words that made-up records are made of."""

from __future__ import annotations


def _words(text: str) -> list[str]:
    return text.split()


# First names and last names that go together.
PEOPLE: tuple[tuple[list[str], list[str]], ...] = (
    (
        _words(
            "Bin Bo Chao Chen Cheng Dan Fang Fei Feng Gang Hai Hao Hong Hua Hui Jian Jie Jing Jun Kai Lei Li Lin"
            " Ling Lu Min Ming Na Peng Ping Qi Qiang Qing Rui Shan Tao Ting Wei Wen Wenjie Wu Xia Xiao Xiaoming"
            " Xin Xu Yan Yang Yi Ying Yong Yu Yuan Yun Ze Zhen Zhi Zhong"
        ),
        _words("Chen Gao Guo He Huang Li Lin Liu Luo Ma Sun Wang Wu Xu Yang Zhang Zhao Zheng Zhou Zhu"),
    ),
    (
        _words(
            "Jae-Hyun Jae-Won Ji-Hoon Ji-Young Jin-Woo Joon-Ho Jung-Min Hae-Won Hyun-Soo Kyung-Ho Kwang-Su Min-Ho"
            " Min-Jun Min-Seo Sang-Hoon Seung-Ho Soo-Jin Sung-Min Tae-Young Woo-Jin Yong-Ho Young-Jae Yu-Na"
        ),
        _words("Choi Jung Kang Kim Lee Park Shin Yoon"),
    ),
    (
        _words(
            "Adam Alan Alice Andrew Anna Benjamin Brian Carol Charles Christopher Daniel David Diane Edward"
            " Elizabeth Emily Eric Frank George Grace Hannah Helen James Jane Jason Jennifer John Jonathan Joseph"
            " Karen Katherine Kevin Laura Linda Mark Martin Mary Matthew Michael Nancy Nathan Patricia Paul Peter"
            " Rachel Richard Robert Ruth Samuel Sarah Scott Stephen Susan Thomas Timothy Walter William"
        ),
        _words(
            "Anderson Baker Brown Clark Cooper Davis Harris Johnson Jones Miller Moore Robinson Smith Taylor Wilson"
        ),
    ),
    (
        _words(
            "Alejandro Ana Andrés Beatriz Carlos Carmen Cristina Diego Elena Fernando Francisco Gabriel Inés"
            " Isabel Javier Jesús Jorge José Juan Juan-Carlos Laura Lucía Luis Manuel María Miguel Pablo Pedro"
            " Rafael Raúl Sofía Teresa"
        ),
        [*_words("Díaz Fernández García Gómez González López Martínez Pérez Rodríguez Sánchez"), "de la Cruz"],
    ),
    (
        _words(
            "Amit Anil Anita Arun Ashok Deepak Divya Ganesh Harish Kavita Kiran Lakshmi Manoj Meena Neha Pooja"
            " Pradeep Priya Rahul Rajesh Ramesh Ravi Rohit Sanjay Sandeep Sunil Suresh Swati Vijay Vikram Vivek"
        ),
        _words("Agarwal Gupta Iyer Jain Kumar Mehta Patel Rao Sharma Singh"),
    ),
    (
        _words(
            "Andreas Anke Bernd Christian Claudia Dieter Eva Franz Georg Hans Jan Jens Jörg Jürgen Katrin Klaus"
            " Lars Markus Martin Matthias Michael Peter Pieter Sabine Stefan Thomas Ulrich Uwe Wolfgang"
        ),
        [
            *_words("Bauer Becker Fischer Hoffmann Krüger Müller Schmidt Schneider Schröder Weber"),
            "van den Berg",
            "de Vries",
        ],
    ),
)

# What people work on, and where that is published.
TOPICS: tuple[tuple[list[str], list[str]], ...] = (
    (
        _words(
            "clustering hierarchical dendrogram linkage agglomerative partition similarity incremental entity"
            " resolution coreference record duplicate merging blocking"
        ),
        ["KDD", "ICDM", "SIGMOD", "Data Mining and Knowledge Discovery"],
    ),
    (
        _words(
            "query index transaction relational join optimizer storage concurrency schema views recovery logging"
            " column workload cardinality"
        ),
        ["SIGMOD", "VLDB", "ICDE", "ACM Transactions on Database Systems"],
    ),
    (
        _words(
            "convolutional image segmentation recognition detection pixel pose scene texture camera stereo motion"
            " tracking face feature"
        ),
        ["CVPR", "ICCV", "ECCV", "Pattern Recognition"],
    ),
    (
        _words(
            "parsing translation syntax sentence semantic corpus discourse lexicon dialogue summarization"
            " morphology annotation grammar speech language"
        ),
        ["ACL", "EMNLP", "COLING", "Computational Linguistics"],
    ),
    (
        _words(
            "routing wireless protocol congestion bandwidth packet sensor mobile latency multicast spectrum"
            " channel antenna relay handover"
        ),
        ["INFOCOM", "SIGCOMM", "MobiCom", "IEEE Transactions on Communications"],
    ),
    (
        _words(
            "encryption signature authentication privacy attack malware secure key anonymity trust intrusion"
            " vulnerability hash zero-knowledge integrity"
        ),
        ["CCS", "USENIX Security", "CRYPTO", "Computers and Security"],
    ),
    (
        _words(
            "protein genome sequence expression gene alignment mutation pathway transcription cell phylogenetic"
            " tumor binding folding variant"
        ),
        ["Bioinformatics", "ISMB", "RECOMB", "Nucleic Acids Research"],
    ),
    (
        _words(
            "robot manipulator grasping trajectory kinematic control locomotion navigation actuator autonomous"
            " mapping arm legged planning force"
        ),
        ["ICRA", "IROS", "Autonomous Robots", "IEEE Transactions on Robotics"],
    ),
    (
        _words(
            "approximation graph combinatorial complexity bound randomized flow matching polynomial hardness"
            " sparse spanning cut embedding rounding"
        ),
        ["STOC", "FOCS", "SODA", "SIAM Journal on Computing"],
    ),
    (
        _words(
            "testing compiler refactoring verification specification bug program static fault maintenance"
            " component requirements debugging symbolic code"
        ),
        ["ICSE", "FSE", "ASE", "IEEE Transactions on Software Engineering"],
    ),
    (
        _words(
            "user interface interaction visualization usability gesture touch display accessibility collaboration"
            " children social design haptic awareness"
        ),
        ["CHI", "UIST", "CSCW", "Interacting with Computers"],
    ),
    (
        _words(
            "circuit cache processor pipeline memory power voltage chip reconfigurable multicore synthesis timing"
            " layout bus interconnect"
        ),
        ["ISCA", "MICRO", "DAC", "IEEE Transactions on Computers"],
    ),
)

COMMON_WORDS = _words(
    "analysis approach method model system efficient scalable framework data learning adaptive application"
    " evaluation distributed novel robust algorithm performance study network information problem dynamic"
    " estimation"
)
SMALL_WORDS = _words("a for of the with on in using under from towards via")

PLACES = _words(
    "Aachen Amherst Amsterdam Austin Bangalore Barcelona Beijing Boston Chicago Delhi Edinburgh Hangzhou Kyoto"
    " Lisbon London Madrid Melbourne Munich Nanjing Paris Prague Seoul Shanghai Singapore Stockholm Toronto Vienna"
    " Warsaw Wuhan Zurich"
)
